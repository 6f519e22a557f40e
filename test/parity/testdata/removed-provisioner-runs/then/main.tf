removed {
  from = terraform_data.a
  lifecycle {
    destroy = true
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo ${self.output}"
  }
}
