variable "need" {
  type = string
}

variable "n" {
  type = number
}

variable "o" {
  type = object({ a = string })
}

variable "nn" {
  nullable = false
}
