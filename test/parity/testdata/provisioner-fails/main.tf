resource "terraform_data" "a" {
  input = "x"

  provisioner "local-exec" {
    command     = "echo trying; exit 3"
    interpreter = ["/bin/sh", "-c"]
  }
}

resource "terraform_data" "b" {
  input = terraform_data.a.id
}
