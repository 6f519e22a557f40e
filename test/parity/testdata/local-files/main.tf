variable "text" {
  default = "one\n"
}

resource "local_file" "a" {
  filename        = "out/a.txt"
  content         = var.text
  file_permission = "0640"
}

resource "local_sensitive_file" "b" {
  filename = "out/b.txt"
  content  = "secret"
}
