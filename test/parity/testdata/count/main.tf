variable "n" {
  type    = number
  default = 3
}

resource "terraform_data" "a" {
  count = var.n
  input = "a${count.index}"
}

output "first" {
  value = terraform_data.a[0].output
}

output "all" {
  value = terraform_data.a[*].output
}
