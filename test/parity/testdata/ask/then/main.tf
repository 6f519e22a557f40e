resource "terraform_data" "x" {
  input = 1
}

variable "n" {
  type = number
}

output "n" {
  value = var.n
}
