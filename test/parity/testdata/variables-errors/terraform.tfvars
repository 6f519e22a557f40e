n    = "many"
o    = { b = 1 }
nn   = null
what = 1
