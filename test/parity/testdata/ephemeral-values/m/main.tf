variable "in" {
  ephemeral = true
}

output "out" {
  value     = "x${var.in}"
  ephemeral = true
}
