import { createRequire } from 'node:module'

/** The few calls of the C library that Node has no name for, through koffi. */

export interface NativeFunction {
  (...args: readonly unknown[]): number | bigint
  /** Runs on a thread of the pool; the last argument is told the result. */
  async(...args: readonly unknown[]): void
}

interface Koffi {
  load(path: string | null): { func(prototype: string): NativeFunction }
  errno(): number
  address(buffer: Uint8Array): bigint
}

export interface Libc {
  func(prototype: string): NativeFunction
  errno(): number
  /** Where its bytes lie, for as long as it is referred to. */
  addressOf(buffer: Uint8Array): bigint
}

const require = createRequire(import.meta.url)

/** Where a program is one file: koffi's native part, which the package's own modules take as long to find as to load. */
declare const KOFFI_PART: string | undefined

/** Throws where koffi's native part is missing for this platform. */
export function loadLibc(): Libc {
  const koffi = require(typeof KOFFI_PART === 'string' ? KOFFI_PART : 'koffi') as Koffi
  const library = koffi.load(null)
  return {
    func: (prototype) => library.func(prototype),
    errno: () => koffi.errno(),
    addressOf: (buffer) => BigInt(koffi.address(buffer)),
  }
}
