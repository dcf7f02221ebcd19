# Homebrew's recipe, for Linux (the server's children lock themselves in with libseccomp). In a clone, whose HEAD it builds:
#   brew tap-new local/saccade && cp packaging/homebrew/saccade.rb "$(brew --repository local/saccade)/Formula/"
#   HOMEBREW_SACCADE_GIT=file://$PWD brew install --HEAD local/saccade/saccade
class Saccade < Formula
  desc "Runtime for vision-language models"
  homepage ENV.fetch("HOMEBREW_SACCADE_GIT", "file:///usr/src/saccade")
  license "Apache-2.0"
  head ENV.fetch("HOMEBREW_SACCADE_GIT", "file:///usr/src/saccade"), using: :git

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "curl"
  depends_on "ffmpeg"
  depends_on "jansson"
  depends_on "jpeg-turbo"
  depends_on "jpeg-xl"
  depends_on "libarchive"
  depends_on "libedit"
  depends_on "libheif"
  depends_on "libmicrohttpd"
  depends_on "libseccomp"
  depends_on "libtiff"
  depends_on "libyaml"
  depends_on :linux
  depends_on "openjpeg"
  depends_on "openssl@3"
  depends_on "pcre2"
  depends_on "utf8proc"
  depends_on "zeromq"

  resource "stb_image" do
    url "https://raw.githubusercontent.com/nothings/stb/8b5f1f37b5b75829fc72d38e7b5d4bcbf8a26d55/stb_image.h"
    sha256 "91f435e0fc6a620018b878b9859c74dff60d28046f87e649191ad6f35a98c722"
  end

  def install
    (buildpath/"third_party/stb").install resource("stb_image")
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DSAC_SHARED=ON", "-DSAC_TESTS=OFF",
           "-DSTB_INCLUDE=#{buildpath}/third_party", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match "parameters", shell_output("#{bin}/saccade inspect")
  end
end
