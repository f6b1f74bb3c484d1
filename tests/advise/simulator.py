"""Run a script for a GPU without one, and write the trace that torch.profiler would have: in its format, with times of a model.

``device="cuda"`` becomes torch's meta device, so shapes, types and autograd are those of the script and nothing is computed. One
host thread issues work, streams carry it out in order: launches, kernels, copies, allocations and waits get times from sizes.
Names, categories and arguments of events are those of PyTorch 2.9 and its Kineto (`output_json.cpp`, `CuptiActivity.cpp`).
It says nothing about how fast anything is; real traces of an H200 stand beside (see research/advise_traces.py).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

PID, TID = 4242, 4242
CALL_US, OP_US, LAUNCH_US, LATENCY_US = 0.5, 1.6, 3.0, 3.0
OVERHEAD_US = 1.0  # of the profiler, for each event of the host
PAGEABLE, PINNED, MEMORY = 9e3, 5.2e4, 3.8e6  # bytes a µs
RATES = {torch.bfloat16: 6e8, torch.float16: 6e8, torch.float32: 4.4e7, torch.float64: 5e7}  # FLOP a µs
TF32_RATE = 3.3e8
SMS = 132
TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int",
    torch.bool: "bool",
}
OPERATORS = {
    "__matmul__",
    "__add__",
    "__radd__",
    "__mul__",
    "__rmul__",
    "__sub__",
    "__truediv__",
    "__gt__",
    "__iadd__",
    "__getitem__",
}
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")


class Trace:
    """The clock of the host, the streams, and the events so far."""

    def __init__(self, script: Path) -> None:
        self.script = script
        self.now = 1000.0
        self.streams: dict[int, float] = {7: 0.0}
        self.stream = 7
        self.events: list[dict[str, Any]] = []
        self.callers: list[list[int]] = []
        self.correlation, self.external, self.python = itertools.count(1), itertools.count(1), itertools.count(1)
        self.open: list[tuple[FrameType, dict[str, Any]]] = []
        self.op_id: list[int] = [0]
        self.cached: list[int] = []
        self.small = 0
        self.capture: list[tuple[str, float, dict[str, Any]]] | None = None

    def emit(self, cat: str, name: str, start: float, dur: float, **args: Any) -> dict[str, Any]:
        on_gpu = cat in ("kernel", "gpu_memcpy", "gpu_memset")
        place = {"pid": 0, "tid": args["stream"]} if on_gpu else {"pid": PID, "tid": TID}
        event = {"ph": "X", "cat": cat, "name": name, **place, "ts": round(start, 3), "dur": round(dur, 3), "args": args}
        self.events.append(event)
        return event

    @contextlib.contextmanager
    def spanning(self, cat: str, name: str, **args: Any) -> Iterator[dict[str, Any]]:
        """An event of the host, as long as its body."""
        event = self.emit(cat, name, self.now, 0.0, **args)
        self.now += OVERHEAD_US / 2
        try:
            yield event
        finally:
            self.now += OVERHEAD_US / 2
            event["dur"] = round(self.now - event["ts"], 3)

    @contextlib.contextmanager
    def function(self, name: str, line: int | None = None) -> Iterator[None]:
        """A Python or built-in function that is called on ``line`` of the innermost frame of the script."""
        parent = self.open[-1][1]["args"]["Python id"] if self.open else None
        self.now += CALL_US
        with self.spanning("python_function", name, **{"Python parent id": parent, "Python id": next(self.python)}) as event:
            if line is not None:
                self.callers.append([round(event["ts"] * 1000), line])
            yield

    @contextlib.contextmanager
    def op(self, name: str, tensors: tuple[Any, ...] = ()) -> Iterator[None]:
        number = next(self.external)
        dims = [list(x.shape) if isinstance(x, torch.Tensor) else [] for x in tensors]
        types = [TYPES.get(x.dtype, str(x.dtype)) if isinstance(x, torch.Tensor) else "" for x in tensors]
        self.op_id.append(number)
        with self.spanning("cpu_op", name, **{"External id": number, "Input Dims": dims, "Input type": types}):
            self.now += OP_US / 2
            yield
            self.now += OP_US / 2
        self.op_id.pop()

    def runtime(self, name: str, dur: float, cbid: int) -> int:
        number = next(self.correlation)
        self.emit("cuda_runtime", name, self.now, dur, **{"External id": self.op_id[-1], "cbid": cbid, "correlation": number})
        self.now += dur
        return number

    def work(self, cat: str, name: str, dur: float, number: int, **more: Any) -> None:
        """Queue work on the current stream."""
        start = max(self.streams[self.stream], self.now + LATENCY_US)
        self.streams[self.stream] = start + dur
        args = {"External id": self.op_id[-1], "device": 0, "context": 1, "stream": self.stream, "correlation": number, **more}
        self.emit(cat, name, start, dur, **args)

    def kernel(self, name: str, dur: float, blocks: float) -> None:
        shape = {
            "registers per thread": 32, "shared memory": 0, "blocks per SM": round(blocks / SMS, 6), "warps per SM": 8.0,
            "grid": [max(1, int(blocks)), 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 50,
        }  # fmt: skip
        if self.capture is not None:
            self.capture.append((name, dur, shape))
            return
        self.work("kernel", name, dur, self.runtime("cudaLaunchKernel", LAUNCH_US, 211), **shape)

    def copy(self, kind: str, size: int, *, pinned: bool, blocking: bool) -> None:
        host = "Pinned" if pinned else "Pageable"
        ends = f"{host} -> Device" if kind == "HtoD" else f"Device -> {host}"
        dur = 1.0 + size / (PINNED if pinned else PAGEABLE)
        start = self.now
        number = next(self.correlation)
        self.now += LAUNCH_US
        self.work("gpu_memcpy", f"Memcpy {kind} ({ends})", dur, number, bytes=size)
        if not pinned and size > 1 << 16:
            self.now = self.streams[self.stream] - 1.0  # the driver stages it
        ids = {"External id": self.op_id[-1], "cbid": 41, "correlation": number}
        self.emit("cuda_runtime", "cudaMemcpyAsync", start, self.now - start, **ids)
        if blocking or not pinned:
            self.wait("cudaStreamSynchronize", 131, self.streams[self.stream])

    def wait(self, name: str, cbid: int, until: float) -> None:
        self.runtime(name, max(1.5, until - self.now + 2.0), cbid)

    def allocate(self, out: torch.Tensor) -> None:
        size = out.numel() * out.element_size()
        if size in self.cached:
            self.cached.remove(size)
        elif size > 1 << 20 or self.small < size:
            self.small += max(0, (2 << 20) - size)  # small tensors share blocks of 2 MiB
            self.runtime("cudaMalloc", 180.0, 20)
        else:
            self.small -= size
        weakref.finalize(out, self.cached.append, size)

    def empty_cache(self) -> None:
        caller = user_frame(self.script)
        self.follow(caller)
        with self.function("torch/cuda/memory.py(224): empty_cache", caller.f_lineno if caller else None):
            for _ in self.cached:
                self.now = max(self.now, *self.streams.values())
                self.runtime("cudaFree", 150.0, 22)
            self.cached.clear()

    def follow(self, frame: FrameType | None) -> None:
        """Close the functions of the script that have returned, and open those that were called."""
        frames: list[FrameType] = []
        while frame is not None:
            if frame.f_code.co_filename == str(self.script):
                frames.insert(0, frame)
            frame = frame.f_back
        same = 0
        while same < min(len(frames), len(self.open)) and self.open[same][0] is frames[same]:
            same += 1
        for _, event in reversed(self.open[same:]):
            event["dur"] = round(self.now + 0.1 - event["ts"], 3)
        del self.open[same:]
        for called in frames[same:]:
            parent = self.open[-1] if self.open else None
            name = f"{self.script.name}({called.f_code.co_firstlineno}): {called.f_code.co_name}"
            ids = {"Python parent id": parent[1]["args"]["Python id"] if parent else None, "Python id": next(self.python)}
            self.now += 0.5
            event = self.emit("python_function", name, self.now, 0.0, **ids)
            if parent is not None:
                self.callers.append([round(event["ts"] * 1000), parent[0].f_lineno])
            self.open.append((called, event))

    def document(self) -> dict[str, Any]:
        """The trace as `ratchet advise` saves it: of torch.profiler, with the lines of the callers."""
        self.now = max(self.now, *self.streams.values())
        self.follow(None)
        gpu = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": SMS}
        return {
            "schemaVersion": 1, "deviceProperties": [gpu], "with_stack": 1, "record_shapes": 1, "baseTimeNanoseconds": 0,
            "displayTimeUnit": "ms", "traceEvents": self.events, "ratchetCallers": self.callers, "ratchetOverhead": OVERHEAD_US,
        }  # fmt: skip


def user_frame(script: Path) -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != str(script):
        frame = frame.f_back
    return frame


def size_of(*tensors: Any) -> int:
    return sum(x.numel() * x.element_size() for x in tensors if isinstance(x, torch.Tensor))


def is_gpu(*values: Any) -> bool:
    return any(isinstance(x, torch.Tensor) and x.is_meta for x in values)


class Operators(TorchDispatchMode):
    """Gives each operator on the meta device an event, and kernels where it computes."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._can_decompose() and "attention" not in func._schema.name:  # under inference_mode torch leaves this to the mode
            with self:
                return func.decompose(*args, **(kwargs or {}))
        out = func(*args, **(kwargs or {}))
        inputs = tuple(x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor))
        made = [x for x in tree_flatten(out)[0] if isinstance(x, torch.Tensor) and not any(x is y for y in inputs)]
        if not is_gpu(*inputs, *made):
            return out
        name = func._schema.name
        with self.trace.op(name, inputs):
            if func.is_view or name in ("aten::detach", "aten::lift_fresh", "aten::_unsafe_view", "aten::_reshape_alias"):
                return out
            for tensor in made:
                if size_of(tensor):
                    with self.trace.op("aten::empty"):
                        self.trace.allocate(tensor)
            if "empty" not in name:
                self.trace.kernel(*cost(func, inputs, tuple(made or inputs[:1])))
        return out


def cost(func: Any, inputs: tuple[torch.Tensor, ...], outputs: tuple[torch.Tensor, ...]) -> tuple[str, float, float]:
    """Return the name of a kernel, its µs, and its blocks."""
    name = func._schema.name.removeprefix("aten::")
    moved = size_of(*inputs, *outputs) / MEMORY
    if name in PRODUCTS:
        left, right = [x for x in inputs if x.dim() >= 2][-2:]
        batch = left.shape[0] if left.dim() == 3 else 1
        m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
        blocks = batch * -(-m // 128) * -(-n // 128)
        fp32, tf32 = left.dtype == torch.float32, torch.backends.cuda.matmul.allow_tf32
        rate = TF32_RATE if fp32 and tf32 else RATES[left.dtype]
        kernel = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT"
        if fp32:
            kind = "f32f32_tf32f32_f32" if tf32 else "f32f32_f32f32_f32"
            kernel = f"sm80_xmma_gemm_{kind}_nn_n_tilesize128x128x8_stage3_execute_kernel__51_cublas"
        return kernel, 3.0 + max(2.0 * batch * m * n * k / (rate * min(1.0, blocks / SMS)), moved), blocks
    blocks = max(1, outputs[0].numel() // 1024)
    if name in ("mean", "sum", "norm", "linalg_vector_norm", "mse_loss", "any"):
        return (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>",
            3 + moved,
            66,
        )
    if torch.Tag.pointwise not in func.tags and name not in ("copy_", "_to_copy", "fill_", "zero_"):
        return f"void {name}_kernel<float>(Params)", 3 + 2 * moved, blocks
    functor = f"at::native::{name}_functor<float>"
    return f"void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 2ul> >", 1.5 + moved, blocks


class Functions(TorchFunctionMode):
    """Moves "cuda" to the meta device, carries out copies and waits, and gives each call its Python events."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__", "__hash__", "is_floating_point", "is_complex", "size", "dim", "stride", "__len__"):
            return func(*args, **kwargs)
        frame = user_frame(self.trace.script)
        if frame is None:
            return func(*_moved(args), **_moved(kwargs))
        self.trace.follow(frame)
        if name in OPERATORS:
            return self._called(func, name, args, kwargs)
        kind = "Tensor" if "Tensor." in (resolve_name(func) or "") else "type"
        label = "<built-in function print>" if name == "__repr__" else f"<built-in method {name} of {kind} object at 0x7f00>"
        with self.trace.function(label, frame.f_lineno):
            return self._called(func, name, args, kwargs)

    def _called(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        trace, first = self.trace, args[0] if args else None
        to = _device(name, args, kwargs)
        if name in ("to", "cuda", "cpu") and isinstance(first, torch.Tensor) and to and is_gpu(first) != (to == "cuda"):
            return self._copied(func, first, args, kwargs, to)
        if name == "tensor" and to == "cuda":
            with trace.op("aten::to"), trace.op("aten::_to_copy"), trace.op("aten::copy_"):
                made = func(*_moved(args), **_moved(kwargs))
                trace.copy("HtoD", size_of(made), pinned=False, blocking=True)
            return made
        if name == "copy_" and is_gpu(*args) and not all(is_gpu(x) for x in args[:2]):
            kind = "HtoD" if is_gpu(first) else "DtoH"
            pinned = getattr(args[1] if kind == "HtoD" else first, "is_pinned_here", False)
            with trace.op("aten::copy_", args[:2]):
                trace.copy(kind, size_of(first), pinned=pinned, blocking=not kwargs.get("non_blocking"))
            return first
        if name in ("item", "__float__", "__bool__", "__int__", "tolist") and is_gpu(first):
            self._read()
            return 1.0
        if name in ("__repr__", "__format__") and is_gpu(first):
            with trace.function("torch/_tensor.py(568): __repr__"), trace.function("torch/_tensor_str.py(715): _str"):
                self._read()
            return "tensor(1.)"
        if name == "__getitem__" and is_gpu(first) and isinstance(args[1], torch.Tensor) and args[1].dtype == torch.bool:
            return self._masked(first, args[1])
        if name == "pin_memory":
            first.is_pinned_here = True
            return first
        return func(*_moved(args), **_moved(kwargs))

    def _copied(self, func: Any, first: torch.Tensor, args: Any, kwargs: Any, to: str) -> torch.Tensor:
        trace = self.trace
        with trace.op("aten::to", (first,)), trace.op("aten::_to_copy", (first,)):
            if to == "cuda":
                made = (
                    torch.empty_like(first, device="meta") if func.__name__ == "cuda" else func(*_moved(args), **_moved(kwargs))
                )
                pinned = getattr(first, "is_pinned_here", False)
            else:
                made, pinned = torch.empty(first.shape, dtype=first.dtype), False
            with trace.op("aten::copy_", (made, first)):
                blocking = not kwargs.get("non_blocking")
                trace.copy("HtoD" if to == "cuda" else "DtoH", size_of(first), pinned=pinned, blocking=blocking)
        return made

    def _read(self) -> None:
        with self.trace.op("aten::item"), self.trace.op("aten::_local_scalar_dense"):
            self.trace.copy("DtoH", 4, pinned=True, blocking=True)

    def _masked(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        trace = self.trace
        with trace.op("aten::index", (values, mask)):
            with trace.op("aten::nonzero", (mask,)):
                trace.kernel(
                    "void at_cuda_detail::cub::DeviceReduceKernel<at_cuda_detail::cub::DeviceReducePolicy<int>>", 3.0, 66
                )
                trace.copy("DtoH", 4, pinned=True, blocking=True)
                trace.kernel("void at_cuda_detail::cub::DeviceSelectSweepKernel<at_cuda_detail::cub::DispatchSelectIf>", 4.0, 66)
            kept = torch.empty((values.shape[0] // 2, *values.shape[mask.dim() :]), dtype=values.dtype, device="meta")
            trace.kernel("void at::native::index_elementwise_kernel<128, 4>", 2 + 2 * size_of(kept) / MEMORY, 128)
        return kept


def _is_cuda(value: Any) -> bool:
    return isinstance(value, torch.device | str) and str(value).startswith("cuda")


def _moved(values: Any) -> Any:
    return tree_map(lambda value: torch.device("meta") if _is_cuda(value) else value, values)


def _device(name: str, args: Any, kwargs: Any) -> str | None:
    """Return the device that a call asks for."""
    if name in ("cuda", "cpu"):
        return name
    asked = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.device | str)]
    return str(asked[0]).partition(":")[0] if asked else None


class _Stream:
    def __init__(self, trace: Trace) -> None:
        self.number = 7 + 6 * len(trace.streams)
        trace.streams[self.number] = 0.0


class _Event:
    def __init__(self, trace: Trace) -> None:
        self.trace, self.at = trace, 0.0

    def record(self, stream: _Stream | None = None) -> None:
        self.trace.runtime("cudaEventRecord", 1.5, 135)
        self.at = self.trace.streams[stream.number if stream else self.trace.stream]

    def wait(self, stream: _Stream | None = None) -> None:
        self.trace.runtime("cudaStreamWaitEvent", 1.5, 147)
        number = stream.number if stream else self.trace.stream
        self.trace.streams[number] = max(self.trace.streams[number], self.at)


class _Graph:
    def __init__(self, trace: Trace) -> None:
        self.trace, self.nodes = trace, list[tuple[str, float, dict[str, Any]]]()

    def replay(self) -> None:
        number = self.trace.runtime("cudaGraphLaunch", 12.0, 311)
        for name, dur, shape in self.nodes:
            self.trace.work("kernel", name, dur, number, **shape)
            self.trace.streams[self.trace.stream] += 0.8


class _Adam:
    """A fused optimizer, which the meta device does not have."""

    def __init__(self, trace: Trace, parameters: Any, **_: Any) -> None:
        self.trace, self.parameters = trace, list(parameters)

    def zero_grad(self, **_: Any) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        with self.trace.op("aten::_fused_adamw_"):
            self.trace.kernel("void at::native::multi_tensor_apply_kernel", 7 * size_of(*self.parameters) / MEMORY, 4000)


def simulate(script: Path) -> dict[str, Any]:
    """Run a script, and return its trace."""
    trace = Trace(script)

    @contextlib.contextmanager
    def on_stream(stream: _Stream) -> Iterator[None]:
        before, trace.stream = trace.stream, stream.number
        yield
        trace.stream = before

    @contextlib.contextmanager
    def capturing(graph: _Graph) -> Iterator[None]:
        trace.capture = graph.nodes
        yield
        trace.capture = None

    def synchronize() -> None:
        frame = user_frame(script)
        trace.follow(frame)
        with trace.function("torch/cuda/__init__.py(1085): synchronize", frame.f_lineno if frame else None):
            trace.wait("cudaDeviceSynchronize", 165, max(trace.streams.values()))

    def sleep(seconds: float) -> None:
        frame = user_frame(script)
        trace.follow(frame)
        with trace.function("<built-in function sleep>", frame.f_lineno if frame else None):
            trace.now += seconds * 1e6

    def adam(parameters: Any, **options: Any) -> _Adam:
        return _Adam(trace, parameters, **options)

    patches: dict[str, Callable[..., Any]] = {
        "torch.cuda.synchronize": synchronize, "torch.cuda.empty_cache": trace.empty_cache, "torch.cuda.stream": on_stream,
        "torch.cuda.Stream": lambda: _Stream(trace), "torch.cuda.Event": lambda: _Event(trace),
        "torch.cuda.CUDAGraph": lambda: _Graph(trace), "torch.cuda.graph": capturing, "torch.optim.AdamW": adam,
    }  # fmt: skip
    code = compile(script.read_text(encoding="utf-8"), str(script), "exec")
    allowed = torch.backends.cuda.matmul.allow_tf32
    with contextlib.ExitStack() as stack:
        for name, stand_in in patches.items():
            stack.enter_context(mock.patch(name, stand_in))
        stack.enter_context(mock.patch.object(time, "sleep", sleep))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(Operators(trace))
        stack.enter_context(Functions(trace))
        try:
            exec(code, {"__name__": "__main__", "__file__": str(script)})
        finally:
            torch.backends.cuda.matmul.allow_tf32 = allowed
    return trace.document()
