resource "aws_instance" "a" {
  ami = "x"
}
