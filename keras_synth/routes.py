"""The ways to compute attention, and how to add one."""

from keras_synth.attention.routes import (
    ExplicitRoute,
    KernelRoute,
    Request,
    Route,
    SharedRoute,
    TilesRoute,
    TorchCPURoute,
    choose,
    get,
    portable,
    register,
    registered,
    serving,
    unregister,
    using,
)

__all__ = [
    "ExplicitRoute",
    "KernelRoute",
    "Request",
    "Route",
    "SharedRoute",
    "TilesRoute",
    "TorchCPURoute",
    "choose",
    "get",
    "portable",
    "register",
    "registered",
    "serving",
    "unregister",
    "using",
]
