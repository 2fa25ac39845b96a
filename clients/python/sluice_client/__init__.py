"""Reads data products of a Sluice server: Client(url, token).product("namespace.product")."""

from .changes import Change, Changes
from .client import Client
from .products import Product
from .values import Meta, Page, QueryColumn, QueryResult, SluiceError

__all__ = ["Change", "Changes", "Client", "Meta", "Page", "Product", "QueryColumn", "QueryResult", "SluiceError"]
