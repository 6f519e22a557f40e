variable "x" {
  deprecated = "Use y."
}

output "x" {
  value      = var.x
  deprecated = "Use z."
}
