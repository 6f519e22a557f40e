variable "password" {
  sensitive = true
  default   = "x"
}

output "o" {
  value = "p: ${var.password}"
}
