"""Every field of a run, at the published sizes and rates (method.md sections 4 to 7).

Run:  python -m spm_jax.main --config=experiments/configs/NAME.py --workdir=DIR [--config.retriever.epochs=4 ...]

This file is the base of the others: a variant imports it and changes lines. By itself it trains on your own data:
    python -m spm_jax.main --config=experiments/configs/default.py --workdir=DIR \
        --config.data.library=library.jsonl --config.data.requests=requests.jsonl
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """The base configuration."""
    c = ConfigDict()
    c.seed = 0  # of parameters, batch order and dropout; equal seeds give equal parameters

    c.seeds = (0,)  # what experiments.sweep runs; a single run takes ``seed``

    c.data = ConfigDict()
    # "jsonl" (library and requests below), "world" (embedded); over ToolBench: "traject" (chains), "traject_parallel"
    # and "stabletoolbench" (sets); a corpus with a library of its own: "nestools", "seal_tools", "nestful", "restbench"
    c.data.source = "jsonl"
    c.data.library = ""  # jsonl: library.jsonl; over ToolBench: its folder or archive; a corpus: its folder
    c.data.requests = ""  # jsonl: requests.jsonl; over ToolBench: folder or archive of the requests
    c.data.documentation = "all"  # what State-Path reads of a tool: "names", with "fields", or "all" with descriptions
    c.data.responses = False  # traject: also read recorded responses for outputs
    c.data.tools = 2000  # world: size of the library
    c.data.count = 600  # world: number of requests
    c.data.seed = 0  # world: its seed

    c.split = ConfigDict()
    c.split.kind = "sequence"  # folds over groups; "domain": fold f leaves the f-th domain (by name) out
    c.split.folds = 5  # of "sequence": a call sequence is never on both sides
    c.split.run = (0,)  # the folds to run

    c.histories = ConfigDict()
    c.histories.share = 1.0  # of the training groups that are kept
    c.histories.corrupted = 0.0  # share of the training paths in which one call is replaced by another tool

    c.aliases = 0.0  # likeness from which two fields count as one, 0.6 for example (spm_jax/data/aliases.py); 0: none
    c.off = ()  # signals to do without: state, flow, precedence, memory, families, clauses (spm_jax/device_library.py)

    c.text = ConfigDict()
    c.text.encoder = ""  # "": LSA fitted on the library; "minilm"; or a folder in the Hugging Face layout
    c.text.search_width = 256  # E: width of the LSA embedding that search uses
    c.text.width = 64  # D: its first columns, the input of the networks

    c.memory = ConfigDict()
    c.memory.ridge = 1.0  # penalty of path memory
    c.memory.held_out = "group"  # what training features are made without: a request's group, or its whole domain
    c.memory.folds = 10  # most sets of groups that are left out in turn for training features

    c.menu = ConfigDict()
    c.menu.candidates = 128  # C: tools of a frontier
    c.menu.size = 32  # K: tools of a menu
    c.menu.prefix = 8  # P: positions that the reranker orders
    c.menu.producers_first = True  # re-sort the other 24 so that producers come first; False keeps retriever order
    c.menu.coverage = 1.0  # lambda: weight of newly covered slots and missing inputs, against log-odds
    c.menu.redundancy = 0.0  # eta: weight of the similarity to a picked tool
    c.menu.hedge = 0.0  # weight of the entry at positions 2 to 5, against its weight at the first

    c.menu.order = (1.0, 1.0, 1.0, 1.0)  # times the learned weights of entry, slot, precedence and executability

    c.model = ConfigDict()
    c.model.width = 128
    c.model.heads = 4
    c.model.layers = 2
    c.model.relations = True  # attention has a bias by relation (retriever) and by pair features (reranker)
    c.model.compute = "float32"  # of the encoders' matrix products, or "bfloat16"; all else is always float32

    c.retriever = ConfigDict()
    c.retriever.lr = 8e-4
    c.retriever.epochs = 2
    c.retriever.batch = 16
    c.retriever.weight_decay = 0.01
    c.retriever.warmup = 0.1  # share of the steps
    c.retriever.clip = 1.0  # largest global norm of a gradient
    c.retriever.text_dropout = 0.0  # chance that an example hides its text embeddings
    c.retriever.text_scale = 1.0  # of the text embeddings in the input; 0 hides them
    c.retriever.negatives = 16  # hard and boundary negatives, of each kind
    c.retriever.inner_folds = 3  # out-of-fold retrievers that make the reranker's menus
    c.retriever.loss = ConfigDict(
        {"path": 0.3, "frontier": 0.3, "hard": 0.1, "boundary": 0.1, "margin": 3.0, "entry": 0.3, "slot": 0.3}
    )

    c.reranker = ConfigDict()
    c.reranker.lr = 1e-4
    c.reranker.epochs = 4
    c.reranker.batch = 4
    c.reranker.weight_decay = 0.01
    c.reranker.warmup = 0.1
    c.reranker.clip = 1.0
    c.reranker.text_dropout = 0.0
    c.reranker.text_scale = 1.0
    c.reranker.loss = ConfigDict({"entry": 0.55, "slot": 0.55, "precedence": 0.75, "membership": 0.30, "path": 1.15})

    c.checkpoint_every = 200  # steps
    c.log_every = 20  # steps
    c.baselines = True  # also fit and score every baseline
    c.must_beat = ""  # a baseline: the run fails unless State-Path has a higher complete chain@K than it
    return c
