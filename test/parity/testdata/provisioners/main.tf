resource "terraform_data" "a" {
  input = "x"

  provisioner "local-exec" {
    command = "echo made ${self.output}"
  }

  provisioner "local-exec" {
    when       = destroy
    command    = "echo gone; exit 4"
    on_failure = continue
  }
}
