locals {
  n = { a = 1 }
}

output "a" {
  value = local.n + 1
}

output "b" {
  value = "a" > 1
}

output "c" {
  value = local.n.b
}

output "d" {
  value = [1, 2][5]
}

output "e" {
  value = true ? [1] : "x"
}
