variable "a" {
  default = 1
}

output "a" {
  value = var.a
}
