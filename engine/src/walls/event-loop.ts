import { readdirSync, readlinkSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import type { Libc } from './libc.ts'
import { refuseRings } from './seccomp.ts'

/**
 * Node's event loop tells the kernel through an io_uring which descriptors it waits for. Behind the walls there is no
 * io_uring, so that a process that is to open sockets there makes its loop anew without one. To be run with
 * `--single-threaded`, or another thread of V8 could call the loop meanwhile. False where the loop kept its ring.
 */
export async function leaveRing(libc: Libc): Promise<boolean> {
  const before = rings()
  if (before === 0) return true
  try {
    refuseRings(libc)
    // Not from within what the loop found by the old ring.
    await turn()
    const loop = libc.func('void *uv_default_loop()')()
    const failed = Number(libc.func('int uv_loop_fork(void *loop)')(loop)) !== 0
    return !failed && rings() < before
  } catch {
    return false
  }
}

function rings(): number {
  return readdirSync('/proc/self/fd').filter(isRing).length
}

function isRing(descriptor: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`).includes('io_uring')
  } catch {
    // The descriptor of the list itself.
    return false
  }
}
