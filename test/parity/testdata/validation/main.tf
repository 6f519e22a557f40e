variable "size" {
  type    = number
  default = 12
  validation {
    condition     = var.size < 10
    error_message = "The size is ${var.size}, which is not less than ten."
  }
  validation {
    condition     = var.size % 2 == 1
    error_message = "The size must be odd."
  }
}

variable "name" {
  type      = string
  default   = "secret"
  sensitive = true
  validation {
    condition     = length(var.name) < 3
    error_message = "Too long."
  }
}
