"""`spm bench`: the time of a menu beside its stages, the machine's floor and other tool selectors."""
