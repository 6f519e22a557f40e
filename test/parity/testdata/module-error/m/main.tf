variable "need" {
  type = string
}

output "x" {
  value = var.need
}
