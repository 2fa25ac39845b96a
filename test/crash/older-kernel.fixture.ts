/** To be loaded before a program: what SLUICE_TEST_KERNEL_WITHOUT names is missing from its kernel, and from its children's. */

import { loadLibc } from '@sluice/engine/libc'
import { missWall } from '../../engine/src/walls/seccomp.ts'

missWall(loadLibc(), process.env['SLUICE_TEST_KERNEL_WITHOUT'] === 'seccomp' ? 'seccomp' : 'landlock')
