variable "password" {
  sensitive = true
  default   = "hunter2"
}

resource "terraform_data" "a" {
  input = var.password
}

output "o" {
  value     = var.password
  sensitive = true
}
