"""Trigonometric functions, and distances on the globe."""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.column_numbers import of_doubles
from hayase.sql.functions.java.numbers import Total, divide, signed_infinity
from hayase.sql.functions.registry import scalar

EARTH_RADIUS = {"KM": 6371.0, "MI": 3959.0}
_UNITS = {
    **dict.fromkeys(("KM", "KILOMETER", "KILOMETERS", "KILOMETRE", "KILOMETRES"), "KM"),
    **dict.fromkeys(("MI", "MILE", "MILES"), "MI"),
}


def _doubles(
    name: str, description: str, function: Callable[[float], float], columns: Callable[[pl.Expr], pl.Expr]
) -> Callable[[float], float]:
    for type_ in ("INT", "BIGINT", "DOUBLE"):
        scalar(name, f"({type_}) -> DOUBLE", description, columns=of_doubles(columns))(function)
    return function


def _columns_of_atan2(y: pl.Expr, x: pl.Expr) -> pl.Expr:
    return pl.arctan2(y.cast(pl.Float64), x.cast(pl.Float64))


def _cotangent(value: float) -> float:
    return divide(1.0, math.tan(value))


sin = _doubles("SIN", "The sine of an angle in radians.", Total(math.sin), pl.Expr.sin)
cos = _doubles("COS", "The cosine of an angle in radians.", Total(math.cos), pl.Expr.cos)
tan = _doubles("TAN", "The tangent of an angle in radians.", Total(math.tan), pl.Expr.tan)
cot = _doubles("COT", "The cotangent of an angle in radians.", Total(_cotangent), pl.Expr.cot)
sinh = _doubles("SINH", "The hyperbolic sine.", Total(math.sinh, signed_infinity), pl.Expr.sinh)
cosh = _doubles("COSH", "The hyperbolic cosine.", Total(math.cosh), pl.Expr.cosh)
tanh = _doubles("TANH", "The hyperbolic tangent.", math.tanh, pl.Expr.tanh)
asin = _doubles("ASIN", "The angle in radians whose sine it is; NaN beyond -1 and 1.", Total(math.asin), pl.Expr.arcsin)
acos = _doubles(
    "ACOS", "The angle in radians whose cosine it is; NaN beyond -1 and 1.", Total(math.acos), pl.Expr.arccos
)
atan = _doubles("ATAN", "The angle in radians whose tangent it is.", math.atan, pl.Expr.arctan)
degrees = _doubles("DEGREES", "An angle in radians as degrees.", math.degrees, pl.Expr.degrees)
radians = _doubles("RADIANS", "An angle in degrees as radians.", math.radians, pl.Expr.radians)


@scalar("ATAN2", "(INT, INT) -> DOUBLE", "The angle in radians of the point (y, x).", columns=_columns_of_atan2)
@scalar("ATAN2", "(BIGINT, BIGINT) -> DOUBLE", "The angle in radians of the point (y, x).", columns=_columns_of_atan2)
@scalar("ATAN2", "(DOUBLE, DOUBLE) -> DOUBLE", "The angle in radians of the point (y, x).", columns=_columns_of_atan2)
def atan2(y: float, x: float) -> float:
    """ATAN2."""
    return math.atan2(y, x)


@scalar("PI", "() -> DOUBLE", "The number pi.")
def pi() -> float:
    """PI."""
    return math.pi


@scalar("geo_distance", "(DOUBLE, DOUBLE, DOUBLE, DOUBLE) -> DOUBLE", "The distance of two points in kilometres.")
def geo_distance(latitude1: float, longitude1: float, latitude2: float, longitude2: float) -> float:
    """GEO_DISTANCE in kilometres: the great circle, on a globe."""
    return _distance(latitude1, longitude1, latitude2, longitude2, EARTH_RADIUS["KM"])


@scalar(
    "geo_distance",
    "(DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING) -> DOUBLE",
    "The distance of two points, given as latitude and longitude twice, in KM or MILES.",
)
def geo_distance_in(latitude1: float, longitude1: float, latitude2: float, longitude2: float, unit: str) -> float:
    """GEO_DISTANCE in a unit."""
    known = _UNITS.get(unit.strip().upper())
    if known is None:
        raise FunctionError("UNKNOWN_UNIT", f"GEO_DISTANCE has no unit {unit!r}; give KM or MILES")
    return _distance(latitude1, longitude1, latitude2, longitude2, EARTH_RADIUS[known])


def _distance(latitude1: float, longitude1: float, latitude2: float, longitude2: float, radius: float) -> float:
    for latitude in (latitude1, latitude2):
        if not -90 <= latitude <= 90:
            raise FunctionError("BAD_LATITUDE", f"latitude {latitude} is not valid; give degrees from -90 to 90")
    for longitude in (longitude1, longitude2):
        if not -180 <= longitude <= 180:
            raise FunctionError("BAD_LONGITUDE", f"longitude {longitude} is not valid; give degrees from -180 to 180")
    from_latitude, to_latitude = math.radians(latitude1), math.radians(latitude2)
    between_latitudes = math.radians(latitude2 - latitude1)
    between_longitudes = math.radians(longitude2 - longitude1)
    haversine = (
        math.sin(between_latitudes / 2) ** 2
        + math.sin(between_longitudes / 2) ** 2 * math.cos(from_latitude) * math.cos(to_latitude)
    )  # fmt: skip
    return radius * 2 * math.asin(math.sqrt(min(haversine, 1.0)))
