variable "s" {
  type        = string
  description = "a string"
}

variable "n" {
  type    = number
  default = 1
}

variable "b" {
  type = bool
}

variable "l" {
  type = list(object({ a = string, b = optional(number, 7), c = optional(set(string)) }))
}

variable "m" {
  type    = map(any)
  default = {}
}

variable "t" {
  type = tuple([string, number])
}

variable "nn" {
  type     = string
  nullable = false
  default  = "dflt"
}

variable "any" {}

variable "dep" {
  type       = string
  default    = "d"
  deprecated = "Use s."
}

output "all" {
  value = { s = var.s, n = var.n, b = var.b, l = var.l, m = var.m, t = var.t, nn = var.nn, any = var.any, dep = var.dep }
}
