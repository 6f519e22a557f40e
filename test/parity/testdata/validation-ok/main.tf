variable "size" {
  type    = number
  default = 3
  validation {
    condition     = var.size < local.limit
    error_message = "Too large."
  }
}

locals {
  limit = 10
}

output "size" {
  value = var.size
}
