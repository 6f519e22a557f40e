names = { a = "alpha", b = "beta" }
