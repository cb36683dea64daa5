"""The messages of `fanlog.v1`: what Google's API has no words for.

The `.proto` files beside this one are the contract, for clients in any language; the modules are
made of them by `make protos`, and a test sees that they are current.
"""
