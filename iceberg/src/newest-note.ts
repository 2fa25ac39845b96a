import type { TableFiles } from './table-files.ts'

/** Beside the metadata, and no part of it: no engine asks for it, and nothing leads to it. */
export const notePath = (files: TableFiles): string => `${files.root}/metadata/newest-epoch.json`

export async function readNote(files: TableFiles): Promise<{ readonly location?: string | null } | null> {
  const path = notePath(files)
  if ((await files.store.stat(path)) === null) return null
  return JSON.parse(Buffer.from(await files.store.get(path)).toString('utf8'))
}
