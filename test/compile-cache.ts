/** Hundreds of processes of the tests begin with the same sources; each finds what those before it have compiled. */
import { join } from 'node:path'

/** For this process's children. https://nodejs.org/api/module.html#module-compile-cache */
export function keepCompiled(): void {
  process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '../node_modules/.cache/compiled')
}
