// Identifiers of HDF5, and the types of elements. Defined in h5/library.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddpm::h5 {

/// Element types by class and size; the stored byte order may be either, memory has the processor's.
enum class Element : uint8_t { u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, other };

/// "uint8", "float32" ...; "other" for what is not a plain number (strings, compounds, half floats).
std::string_view name_of(Element element);
/// Bytes per element; 0 for `other`.
std::size_t size_of(Element element);
[[nodiscard]] bool is_integer(Element element);

/// An identifier of HDF5 (hid_t) and the function that releases it. Move-only; a failure to release is logged.
class Handle {
 public:
  using Closer = int (*)(int64_t);
  Handle() = default;
  Handle(int64_t id, Closer closer) : id_(id), closer_(closer) {}
  ~Handle();
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  [[nodiscard]] bool open() const { return id_ >= 0; }
  /// The identifier; a closed handle throws InternalError.
  [[nodiscard]] int64_t id() const;
  /// Releases now; returns HDF5's status (negative: failed).
  int close();
  /// Gives the identifier up without releasing it.
  int64_t release();

 private:
  int64_t id_ = -1;
  Closer closer_ = nullptr;
};

}  // namespace ddpm::h5
