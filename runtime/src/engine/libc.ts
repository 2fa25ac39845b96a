import { createRequire } from 'node:module'

/** The few calls of the C library that Node has no name for. */

interface KoffiFunction {
  (...args: readonly unknown[]): number | bigint
  async(...args: readonly unknown[]): void
}

interface Koffi {
  load(path: string | null): { func(prototype: string): KoffiFunction }
  errno(): number
}

const require = createRequire(import.meta.url)

export interface Libc {
  func(prototype: string): KoffiFunction
  errno(): number
}

/** Throws where the native part of koffi is missing for this platform. */
export function loadLibc(): Libc {
  const koffi = require('koffi') as Koffi
  const library = koffi.load(null)
  return { func: (prototype) => library.func(prototype), errno: () => koffi.errno() }
}
