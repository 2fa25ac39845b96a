/** Run by npm after a workspace was packed, in its folder. */
import { restore } from './restore.ts'

await restore(process.cwd())
