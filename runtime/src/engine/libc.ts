import { createRequire } from 'node:module'

/** The few calls of the C library that Node has no name for, through koffi. */

export interface NativeFunction {
  (...args: readonly unknown[]): number | bigint
  /** Runs on a thread of the pool; the last argument is told the result. */
  async(...args: readonly unknown[]): void
}

interface Koffi {
  load(path: string | null): { func(prototype: string): NativeFunction }
  struct(name: string, members: Readonly<Record<string, string>>): unknown
  errno(): number
}

export interface Libc {
  func(prototype: string): NativeFunction
  struct(name: string, members: Readonly<Record<string, string>>): void
  errno(): number
}

const require = createRequire(import.meta.url)

/** Throws where koffi's native part is missing for this platform. */
export function loadLibc(): Libc {
  const koffi = require('koffi') as Koffi
  const library = koffi.load(null)
  return {
    func: (prototype) => library.func(prototype),
    struct: (name, members) => {
      koffi.struct(name, members)
    },
    errno: () => koffi.errno(),
  }
}
