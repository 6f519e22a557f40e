terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

output "a" {
  value = provider::lab::upper("")
}

output "b" {
  value = provider::lab::upper()
}

output "c" {
  value = provider::lab::lower("x")
}
