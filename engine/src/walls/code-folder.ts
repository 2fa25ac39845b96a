/** Folders that programs are started from: whoever may write there decides what runs here. */
import { accessSync, constants, mkdirSync, realpathSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

/**
 * Where programs of children, and their compiled code, are kept: in the folder that NODE_COMPILE_CACHE names for this
 * process, so that several runtimes share them, and else in the given one; in that, too, where others may write to the first.
 */
export function codeFolder(otherwise: string): string {
  const named = process.env['NODE_COMPILE_CACHE']
  // Children run in another folder, which no relative name may depend on.
  return (named ? ownFolder(named) : null) ?? resolve(otherwise)
}

/** Any user may write to it, and nobody may rename what is another's, as in /tmp. */
const STICKY = 0o1000

/**
 * The folder's real place, made when missing, or null: whoever writes there decides what runs here, so nobody else may, nor may
 * a user other than root who has a folder above it. Null, too, where it cannot be written.
 */
export function ownFolder(folder: string): string | null {
  const own = process.getuid?.()
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const place = realpathSync(folder)
    const { uid, mode } = statSync(place)
    accessSync(place, constants.W_OK)
    if (uid !== own || (mode & 0o022) !== 0) return null
    for (let above = dirname(place); ; above = dirname(above)) {
      const { uid: owner, mode: rights } = statSync(above)
      if ((owner !== own && owner !== 0) || ((rights & 0o002) !== 0 && (rights & STICKY) === 0)) return null
      if (above === dirname(above)) return place
    }
  } catch {
    // A folder that cannot be made or read is nobody's to run from.
    return null
  }
}
