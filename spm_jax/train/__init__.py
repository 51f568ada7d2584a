"""Training: state, optimizer, devices, checkpoints, metrics file and the loop that survives being killed."""
