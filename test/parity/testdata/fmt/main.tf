variable "x" {
type=string
  default = "${null}"
}
