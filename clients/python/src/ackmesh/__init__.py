"""Ackmesh client for Python.

The wire contract is in ackmesh.v1: generated messages and gRPC stubs.
"""

from pkgutil import extend_path

# In an installed package ackmesh/v1 lies beside this file; in an editable
# install it is in another folder of sys.path.
__path__ = extend_path(__path__, __name__)
