variable "size" {
  type    = number
  default = 7
}

resource "terraform_data" "a" {
  input = var.size
  lifecycle {
    precondition {
      condition     = var.size < 5
      error_message = "The size must be less than 5, not ${var.size}."
    }
  }
}

output "o" {
  value = var.size
  precondition {
    condition     = var.size < 6
    error_message = "The output would be ${var.size}."
  }
}
