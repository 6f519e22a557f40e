variable "a" {}

output "a" {
  value = var.a
}
