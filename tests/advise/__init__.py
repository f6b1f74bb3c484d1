"""Scripts for `ratchet advise`: each in planted/ has one antipattern, named in its first line; those in clean/ have none.

Most were written before any rule, and half of these were set aside until the rules were frozen: `SET_ASIDE`. Those of
`WRITTEN_LATER` were written when the rules had been fixed by what was set aside, and were frozen again; those of `WRITTEN_LAST`
when traces of a GPU had changed them once more, or when those of a CPU were found too few.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
PLANTED = sorted((HERE / "planted").glob("*.py"))
CLEAN = sorted((HERE / "clean").glob("*.py"))
SET_ASIDE = frozenset(
    {
        *("print_in_loop", "mask_in_loop", "tensor_per_call", "small_batch"),
        *("elementwise_chain", "element_loop", "cache_emptied", "results_to_host"),
        *("graph_replay", "fused_activation", "loader_workers", "log_now_and_then"),
    }
)
WRITTEN_LATER = frozenset(
    {
        *("cpu_in_loop", "double_from_numpy", "products_one_by_one", "rows_one_by_one"),
        *("attention", "convolutions", "cpu_training", "cpu_in_place"),
    }
)
WRITTEN_LAST = frozenset(
    {
        *("norm_in_loop", "early_exit", "constants_per_frame", "heads_one_by_one", "gelu_by_hand", "fp32_layers"),
        *("upload_per_step", "one_token_at_a_time"),
        *("cpu_growing_cat", "cpu_growing_columns", "cpu_lists_per_call", "cpu_nested_lists"),
        *("cpu_double_from_numpy", "cpu_double_from_one_operand", "cpu_rows_in_loop", "cpu_rows_walked"),
        *("cpu_cat_of_a_list", "cpu_random_indices", "cpu_double_on_purpose", "cpu_rows_at_once"),
        *("cpu_windows", "cpu_noise_per_step", "cpu_text_dataset", "cpu_pairs_one_by_one"),
        *("accumulated_gradients", "batched_requests", "reduced_on_the_gpu", "cpu_sorting", "cpu_convolution", "cpu_slices"),
    }
)


def planted_in(script: Path) -> str:
    """Return the name of the finding that belongs first."""
    return script.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# plants: ")


def runs_on_cpu(script: Path) -> bool:
    """Return whether a script needs no GPU."""
    return "# runs on: cpu\n" in script.read_text(encoding="utf-8")
