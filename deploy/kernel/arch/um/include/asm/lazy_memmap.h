/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UM_LAZY_MEMMAP_H
#define __UM_LAZY_MEMMAP_H

#include <linux/types.h>

/* Takes the access to the pages of a new map of pages, which are made when they are first used. */
void memmap_make_lazy(void *map, unsigned long size);

/* Tells whether a struct page is in a page of the map that has not been used. */
bool memmap_is_absent(const void *page);

/* Pages of memory that have no page of the map are free from now on. */
void memmap_begin_free(void);

/* Makes the page of the map at an address that the kernel could not access. Returns false for any other address. */
int memmap_populate(unsigned long address);

#endif
