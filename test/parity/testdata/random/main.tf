resource "random_integer" "n" {
  min  = 1
  max  = 1000
  seed = "s"
}

resource "random_shuffle" "s" {
  input        = ["a", "b", "c", "d"]
  result_count = 3
  seed         = "s"
}

resource "random_uuid" "u" {
  keepers = { a = "b" }
}

resource "random_string" "x" {
  length           = 5
  upper            = false
  lower            = false
  numeric          = false
  override_special = "x"
}

resource "random_password" "p" {
  length           = 4
  upper            = false
  lower            = false
  numeric          = false
  override_special = "p"
}

output "password" {
  value     = random_password.p.result
  sensitive = true
}
