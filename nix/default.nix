# The parts of yuba for Nix, without flakes:
#
#   let yuba = import /path/to/yuba/nix { inherit pkgs; };
#   in yuba.package, yuba.modules.k8s-pod, yuba.groupFile { ... }, yuba.deploy { ... }
{
  pkgs ? import <nixpkgs> { },
}:
import ./lib.nix { inherit pkgs; }
// {
  package = pkgs.callPackage ./package.nix { };
  modules = import ./modules;
}
