//! Heap for the probe's allocations between trials. Reset after every fault.

use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use linked_list_allocator::Heap;

use super::CoreCell;

/// Size, bytes: a thousand samples with their lines need some hundred KiB, the longest list of cells 16 KiB.
const HEAP_BYTES: usize = 2 << 20;

#[repr(C, align(4096))]
struct Memory(MaybeUninit<[u8; HEAP_BYTES]>);

#[unsafe(link_section = ".noinit")]
static MEMORY: CoreCell<Memory> = CoreCell::new(Memory(MaybeUninit::uninit()));

struct Global(CoreCell<Heap>);

#[global_allocator]
static GLOBAL: Global = Global(CoreCell::new(Heap::empty()));

/// Discards all allocations.
///
/// # Safety
/// No earlier allocation is used any more, not even to drop it.
pub(super) unsafe fn begin() {
    let mut heap = Heap::empty();
    // SAFETY: the memory belongs to `MEMORY` alone, and by the caller's promise no part of it is in use.
    unsafe {
        heap.init(MEMORY.get().cast(), HEAP_BYTES);
        *GLOBAL.0.get() = heap;
    }
}

// SAFETY: the blocks are those of a `Heap` with its own memory. There is one core, and an interrupt never returns to
// an allocation (see the head of `super`), so no two calls overlap.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no other reference, as above.
        let heap = unsafe { &mut *self.0.get() };
        heap.allocate_first_fit(layout).map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: no other reference, as above; `at` was returned by `alloc` with this layout, by the caller's
        // promise.
        unsafe {
            if let Some(at) = NonNull::new(at) {
                (*self.0.get()).deallocate(at, layout);
            }
        }
    }
}
