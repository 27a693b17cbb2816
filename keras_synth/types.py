"""Names of types in signatures; Keras itself is untyped.

- `Tensor`: tensor of the backend, symbolic tensor, variable or array. Shapes
  and dtypes are in docstrings.
- `Shape`: its shape, `None` for an unknown length.
- `Size`: integer, or scalar integer tensor where a length is not known.
- `Identifier`: a name, a config or an object, as in Keras' `get`.
- `FilePath`: string or path object.
- `WeightAxes`: names of weights, and along what their axes can be cut.
"""

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias

Tensor: TypeAlias = Any
Shape: TypeAlias = tuple[int | None, ...]
Size: TypeAlias = int | Tensor
Identifier: TypeAlias = Any
FilePath: TypeAlias = str | PathLike[str]
WeightAxes: TypeAlias = Mapping[str, tuple[str | None, ...]]

# The base of mixins, which call a sibling class by `super()`.
Mixin: Any = object
