// kit.mjs - the package under test, from the folder of tools/interop-setup.
import { createRequire } from 'node:module'
import { join } from 'node:path'

export const scalebox = createRequire(join(process.env.SCALEBOX_PACKAGES, 'node_modules', 'x.js'))('@scalebox/sdk')
