resource "random_integer" "n" {
  min  = 1
  max  = 1000
  seed = "t"
}

resource "random_uuid" "u" {
  keepers = { a = "c" }
}

resource "random_string" "x" {
  length           = 7
  upper            = false
  lower            = false
  numeric          = false
  override_special = "x"
}
