"""Who calls: tokens, keys, issuers, certificates; and the record of what was done."""
