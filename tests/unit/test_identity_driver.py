"""What is read from the CUDA driver, against a stand-in compiled with NVIDIA's own cuda.h: structures and calls agree with it."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet import nvcc
from ratchet.core.errors import CudaBuildError
from ratchet.identical.launches.driver import Driver, NoIdentity
from ratchet.identical.launches.record import LaunchReader

STAND_IN = r"""
#include <cuda.h>
#include <string.h>

#define NODE(n) ((CUgraphNode)(size_t)(0x100 + (n)))
int kind = -1;     // of the kernel's node, if not 0
int packed = 0;    // the kernel's arguments come in one buffer
int library = 0;   // the kernel comes as a CUkernel
int arguments = 3;
int source = CU_MEMORYTYPE_DEVICE;
int updatable = 0;
int memory = CU_MEMORYTYPE_DEVICE;
int managed = 0;
int calls = 0;

static CUdeviceptr pointer = 0x7f0000001000;
static int number = 42;
static struct { long long a; CUdeviceptr inside; int b; } structure = {1, 0x7f0000002000, 3};
static void *each[3] = {&pointer, &number, &structure};
static char buffer[40];
static size_t buffer_size = sizeof buffer;
static void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &buffer_size, CU_LAUNCH_PARAM_END};

// Listed last to first, so that only the edges say in which order they run.
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    if (graph == (CUgraph)0xabd) {  // one node alone
        if (nodes) nodes[0] = NODE(1);
        *count = 1;
        return CUDA_SUCCESS;
    }
    if (graph != (CUgraph)0xabc) return CUDA_ERROR_INVALID_VALUE;
    if (nodes) for (int i = 0; i < 3; ++i) nodes[i] = NODE(2 - i);
    *count = 3;
    return CUDA_SUCCESS;
}
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count) {
    if (graph == (CUgraph)0xabd) {  // as driver 580 does
        *count = 0;
        return from ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    if (from) for (int i = 0; i < 2; ++i) {
        from[i] = NODE(i); to[i] = NODE(i + 1);
        memset(data + i, 0, sizeof data[i]);
        data[i].from_port = i;
    }
    *count = 2;
    return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    const CUgraphNodeType types[3] = {CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY};
    *type = node == NODE(1) && kind >= 0 ? kind : types[(size_t)node - 0x100];
    return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *told) {
    memset(told, 0, sizeof *told);
    if (library) told->kern = (CUkernel)0x777; else told->func = (CUfunction)0x555;
    told->gridDimX = 11; told->gridDimY = 12; told->gridDimZ = 13;
    told->blockDimX = 21; told->blockDimY = 22; told->blockDimZ = 23;
    told->sharedMemBytes = 31;
    told->ctx = (CUcontext)0x999;
    memcpy(buffer, &pointer, 8); memcpy(buffer + 8, &number, 4); memcpy(buffer + 16, &structure, 24);
    if (packed) told->extra = extra; else told->kernelParams = each;
    return CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    *function = (CUfunction)0x555;
    return kernel == (CUkernel)0x777 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuFuncGetName(const char **name, CUfunction function) {
    ++calls;
    *name = "_Z4rowsPf";
    return function == (CUfunction)0x555 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? 64 : 0;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    const size_t offsets[3] = {0, 8, 16}, sizes[3] = {8, 4, 24};
    if (index >= (size_t)arguments) return CUDA_ERROR_INVALID_VALUE;
    *offset = offsets[index]; *size = sizes[index];
    return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue *value) {
    if (attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) value->clusterDim.x = 2;
    if (attribute == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
        value->deviceUpdatableKernelNode.deviceUpdatable = updatable;
    return attribute == CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *told) {
    memset(told, 0, sizeof *told);
    told->srcXInBytes = 1; told->srcY = 2; told->srcZ = 3; told->srcLOD = 4;
    told->srcMemoryType = source; told->srcDevice = 0x7f0000003000; told->srcPitch = 5; told->srcHeight = 6;
    told->dstMemoryType = CU_MEMORYTYPE_DEVICE; told->dstDevice = 0x7f0000004000; told->dstPitch = 7; told->dstHeight = 8;
    told->WidthInBytes = 1024; told->Height = 2; told->Depth = 1;
    return CUDA_SUCCESS;
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *told) {
    told->dst = 0x7f0000005000; told->pitch = 9; told->value = 255; told->elementSize = 4; told->width = 100; told->height = 1;
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    if (address < 0x7f0000000000) return CUDA_ERROR_INVALID_VALUE;
    *(int *)data = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? memory : managed;
    return CUDA_SUCCESS;
}
CUresult cuMemGetAddressRange(CUdeviceptr *start, size_t *size, CUdeviceptr address) {
    *start = address & ~0xfffull; *size = 4096;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    *module = (CUmodule)0x333;
    return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *size, CUmodule module, const char *name) {
    *address = 0x7f0000006000; *size = 32;
    return module == (CUmodule)0x333 && !strcmp(name, "table") ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr from, size_t size, CUstream stream) {
    memcpy((void *)target, (void *)from, size);
    return stream == (CUstream)0x22 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    *stream = (CUstream)0x7f0000000011;
    return flags == CU_STREAM_DEFAULT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    *value = limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY ? 64 : 1;
    return limit <= CU_LIMIT_PERSISTING_L2_CACHE_SIZE ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}
CUresult cuCtxGetCacheConfig(CUfunc_cache *config) { *config = CU_FUNC_CACHE_PREFER_L1; return CUDA_SUCCESS; }
CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value) {
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = -5;
    return CUDA_SUCCESS;
}
"""
GRAPH = 0xABC


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        compiler = nvcc.find_nvcc()  # knows where its cuda.h is
    except CudaBuildError as error:
        pytest.skip(error.message)
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(STAND_IN)
    flags = ["-shared", "-Xcompiler", "-fPIC,-w", "-cudart", "none"]
    subprocess.run([compiler, *flags, "-o", folder / "libcuda.so.1", folder / "driver.c"], check=True)
    return folder / "libcuda.so.1"


class Knobs:
    """Sets the stand-in's variables."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._before: dict[str, int] = {}

    def set(self, **values: int) -> None:
        for name, value in values.items():
            variable = ctypes.c_int.in_dll(self._library, name)
            self._before.setdefault(name, variable.value)
            variable.value = value

    def get(self, name: str) -> int:
        return ctypes.c_int.in_dll(self._library, name).value

    def reset(self) -> None:
        self.set(**self._before)


@pytest.fixture
def knobs(stand_in: Path) -> Iterator[Knobs]:
    made = Knobs(stand_in)
    yield made
    made.reset()


@pytest.fixture
def driver(stand_in: Path) -> Driver:
    return Driver(str(stand_in))


def word(number: int) -> bytes:
    return number.to_bytes(8, "little")


ARGUMENTS = (
    (0, word(0x7F0000001000)),
    (8, (42).to_bytes(4, "little")),
    (16, word(1) + word(0x7F0000002000) + (3).to_bytes(4, "little")),
)


def test_a_graph_is_read(driver: Driver) -> None:
    """Fills, kernels and copies come in the order in which they run, with every figure that decides what they do."""
    found = LaunchReader(driver).launches(GRAPH)
    fill, kernel, copy = found.nodes
    assert found.edges == ((0, 1, "00" * 8), (1, 2, "01" + "00" * 7))
    assert (fill.kind, fill.shape, fill.settings) == ("memset", (100, 1, 4), (255, 9))
    assert fill.values == ((0, word(0x7F0000005000)),)
    assert (kernel.kind, kernel.name, kernel.function) == ("kernel", "_Z4rowsPf", 0x555)
    assert kernel.shape == (11, 12, 13, 21, 22, 23, 31)
    arguments = [(at, value[: len(ARGUMENTS[index][1])]) for index, (at, value) in enumerate(kernel.values[:3])]
    assert tuple(arguments) == ARGUMENTS
    assert kernel.settings[2 * 4 : 2 * 4 + 2] == (0, 64)  # registers
    attributes = dict(kernel.values[3:])
    assert attributes[-4][:4] == (2).to_bytes(4, "little")  # cluster
    assert not any(any(value) for number, value in attributes.items() if number != -4)
    assert 801 in kernel.settings  # an attribute that this driver does not know is not taken for 0
    assert (copy.kind, copy.shape) == ("memcpy", (1024, 2, 1))
    assert copy.settings == (1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 7, 8)
    assert copy.values == ((0, word(0x7F0000003000)), (1, word(0x7F0000004000)))


def test_one_launch_alone(driver: Driver) -> None:
    """A call of a single launch has no edges, which the driver refuses to be asked for twice."""
    found = LaunchReader(driver).launches(0xABD)
    assert ([node.name for node in found.nodes], found.edges) == (["_Z4rowsPf"], ())


def test_each_way_to_give_arguments(driver: Driver, knobs: Knobs) -> None:
    """Arguments in one buffer, and a kernel of a library, give the same launch."""
    plain = LaunchReader(driver).launches(GRAPH)
    knobs.set(packed=1)
    assert LaunchReader(driver).launches(GRAPH) == plain
    knobs.set(packed=0, library=1)
    assert LaunchReader(driver).launches(GRAPH) == plain


def test_a_kernel_is_asked_once(driver: Driver, knobs: Knobs) -> None:
    """What is the same for each launch of a kernel is asked once."""
    reader = LaunchReader(driver)
    knobs.set(calls=0)
    assert reader.launches(GRAPH) == reader.launches(GRAPH)
    assert knobs.get("calls") == 1


@pytest.mark.parametrize(
    ("knob", "reason"),
    [
        ({"kind": 3}, "a function of the host"),
        ({"kind": 4}, "another graph"),
        ({"kind": 10}, "memory allocated on the GPU"),
        ({"kind": 13}, "a condition"),
        ({"kind": 77}, "node type 77"),
        ({"arguments": 0}, "does not tell the arguments"),
        ({"packed": 1, "arguments": 3, "source": 1}, "the host's memory"),
        ({"source": 3}, "an array"),
        ({"updatable": 1}, "can change its launches"),
    ],
)
def test_what_cannot_be_compared_is_opaque(driver: Driver, knobs: Knobs, knob: dict[str, int], reason: str) -> None:
    """A graph that holds more than kernels, copies and fills within the GPU is opaque, with what it holds."""
    knobs.set(**knob)
    with pytest.raises(NoIdentity, match=reason):
        LaunchReader(driver).launches(GRAPH)


def test_an_empty_node_is_nothing(driver: Driver, knobs: Knobs) -> None:
    """A node that does nothing is in the list, with what waits for it."""
    knobs.set(kind=5)
    assert [node.kind for node in LaunchReader(driver).launches(GRAPH).nodes] == ["memset", "empty", "memcpy"]


def test_addresses(driver: Driver, knobs: Knobs) -> None:
    """An address has its allocation, another number has none, and memory that is shared with the host is opaque."""
    assert driver.points_to(0x7F0000001234) == (0x7F0000001000, 4096)
    assert driver.points_to(0x1234567) is None
    for knob in ({"memory": 1}, {"memory": 2, "managed": 1}):
        knobs.set(**knob)
        with pytest.raises(NoIdentity, match="the host and the GPU share"):
            driver.points_to(0x7F0000001234)


def test_variables(driver: Driver) -> None:
    """A variable is found by its name in the kernel's own module, and one that is not there is opaque."""
    assert driver.module(0x555) == 0x333
    assert driver.variable(0x555, "table") == (0x7F0000006000, 32)
    with pytest.raises(NoIdentity, match="the variable more"):
        driver.variable(0x555, "more")


def test_streams_and_settings(driver: Driver) -> None:
    """A stream is made with the default flags; limits, cache and the stream's attributes are told."""
    assert driver.blocking_stream() == 0x7F0000000011
    told = driver.settings(0)
    assert told[:8] == [0, 1, 0, 64, 0, 1, 0, 2]
    assert "fbffffff" + "00" * 60 in told


def test_copies(driver: Driver) -> None:
    """Bytes are copied from an address to an address, on the stream that is named."""
    source, target = ctypes.create_string_buffer(b"contents"), ctypes.create_string_buffer(8)
    driver.copy(ctypes.addressof(target), ctypes.addressof(source), 8, 0x22)
    assert target.raw == b"contents"
    with pytest.raises(NoIdentity, match="cuMemcpyDtoDAsync_v2 gives error 400"):
        driver.copy(ctypes.addressof(target), ctypes.addressof(source), 8, 0x23)


def test_an_old_driver_is_opaque() -> None:
    """A driver without a function that is needed is named, not guessed around."""
    with pytest.raises(NoIdentity, match="has no cuGraphGetNodes"):
        LaunchReader(Driver("libc.so.6")).launches(GRAPH)


def test_refusals_are_opaque(driver: Driver) -> None:
    """An error of the driver is told with its number."""
    with pytest.raises(NoIdentity, match="cuGraphGetNodes gives error 1"):
        LaunchReader(driver).launches(0xDEF)
